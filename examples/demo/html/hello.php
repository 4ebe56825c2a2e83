<?php
// PHP answers this one: /hello.php?name=you
header('Content-Type: text/plain; charset=utf-8');
echo 'Hello, ', $_GET['name'] ?? 'world', '! PHP ', PHP_VERSION, ' has made this at ', date('H:i:s'), ".\n";
