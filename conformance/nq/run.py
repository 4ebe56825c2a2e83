"""Runs nq's tests, which are written for Python 2, with Python 3. Prints PASSED or FAILED and the name of each."""

from gevent import monkey

# Before anything else has looked at what this replaces.
monkey.patch_all()

import sys
import unittest


class Result(unittest.TextTestResult):
    def addSuccess(self, test):
        super().addSuccess(test)
        print("PASSED", test.id(), flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        print("FAILED", test.id(), flush=True)

    def addError(self, test, err):
        super().addError(test, err)
        print("FAILED", test.id(), flush=True)


def contains(self, subset, dictionary, msg=None):
    self.assertEqual({**dictionary, **subset}, dictionary, msg)


# Names that later versions of Python do not have any more.
unittest.TestCase.assertItemsEqual = unittest.TestCase.assertCountEqual
unittest.TestCase.assertDictContainsSubset = contains

outcome = unittest.TextTestRunner(resultclass=Result).run(unittest.defaultTestLoader.discover(sys.argv[1]))
sys.exit(not outcome.wasSuccessful())
