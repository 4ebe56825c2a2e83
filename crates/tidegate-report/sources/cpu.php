<?php
$n = (int) $_GET['n'];
$dat = array();
mt_srand();
for ($i = 0; $i < $n; $i++) {
    $dat[$i] = mt_rand(0, 10000);
}
sort($dat);
$sum = 0;
for ($i = 0; $i < $n; $i++) {
    $sum += $dat[$i];
}
echo "sum: ", $sum, ", cnt: ", $n, ", avg: ", $sum / $n;
