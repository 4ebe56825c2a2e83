"""The part of MySQLdb that nq's tests use, made of PyMySQL.

The tests keep a connection while they restart the server. Where that has the database inside, the connection ends: this one begins anew.
"""

import time

import pymysql

# How long a server that has just been started may take.
START_MAX = 30


class Connection:
    def __init__(self, host, port, user, passwd, db=None):
        self.options = {"host": host, "port": port, "user": user, "password": passwd, "database": db}
        self.is_autocommit = False
        self.opened = None
        self.current()

    def current(self):
        until = time.monotonic() + START_MAX
        while self.opened is None:
            try:
                self.opened = pymysql.connect(autocommit=self.is_autocommit, **self.options)
            except pymysql.err.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        return self.opened

    def autocommit(self, on):
        self.is_autocommit = on
        self.current().autocommit(on)

    def cursor(self):
        return Cursor(self)


class Cursor:
    def __init__(self, connection):
        self.connection = connection
        self.cursor = None

    def execute(self, sql):
        try:
            return self.attempt(sql)
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError):
            self.connection.opened = None
            return self.attempt(sql)

    def attempt(self, sql):
        self.cursor = self.connection.current().cursor()
        return self.cursor.execute(sql)

    def fetchone(self):
        return self.cursor.fetchone()


connect = Connection
