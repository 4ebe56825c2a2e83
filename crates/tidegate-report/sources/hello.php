<?php echo "Hello, world!";
