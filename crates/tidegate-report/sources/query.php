<?php
$queries = array(
    'sleep' => 'select sleep(1)',
    'row' => 'select * from City order by ID limit 1',
    'rows' => 'select * from City order by ID limit 1000',
);
$db = mysqli_connect('p:127.0.0.1', 'monty', 'some_pass', 'world', @DATABASE_PORT@);
$rows = mysqli_query($db, $queries[$_GET['q']])->fetch_all(MYSQLI_ASSOC);
header('Content-Type: application/json');
echo json_encode($rows);
