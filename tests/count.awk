# Counts the tests in the output of a run: those of all test programs together, since many crates have no doc tests and
# the last line of cargo itself says nothing; and those of packages, which have a line of their own.
/^test result:/ { passed += $4; failed += $6 }
/^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3 }
END { printf "%d passed, %d failed\n", passed, failed }
