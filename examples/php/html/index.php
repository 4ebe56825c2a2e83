<!doctype html>
<meta charset="utf-8">
<title>PHP behind Tidegate</title>
<h1>PHP <?= PHP_VERSION ?> behind Tidegate</h1>
<p>You asked for <code><?= htmlspecialchars($_SERVER['REQUEST_URI']) ?></code>.
<form method="post">
  <label>Your name: <input name="name"></label>
  <button>Say hello</button>
</form>
<?php if (isset($_POST['name'])): ?>
<p>Hello, <?= htmlspecialchars($_POST['name']) ?>!
<?php endif ?>
