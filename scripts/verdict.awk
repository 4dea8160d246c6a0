# verdict.awk reads `go test -v ./...` and prints what plain `go test ./...` would:
# the closing line of each package, and before it, if the package failed, the output
# of the tests that did not pass.
#
# It fails if a package failed, if a test was skipped, if fewer tests passed than
# least, or if fewer passed than declared. Subtests and examples are not counted for
# declared. At the end it names the tests that were skipped.

/^=== (RUN|PAUSE|CONT|NAME) / { test = $3; next }
/^--- PASS: (Test|Fuzz)/ { functions++ }
/^[ \t]*--- PASS: / { tests++; delete said[$3]; test = ""; next }
/^[ \t]*--- SKIP: / { skipped[++skips] = said[$3] $0; test = ""; next }
/^[ \t]*--- FAIL: / { test = $3 }
/^PASS$/ { next }

/^ok  \t|^\?   \t|^\t.*coverage: / { print; fflush(); forget(); next }
/^FAIL\t/ { tell(); print; fflush(); failed++; forget(); next }

{
  if (!(test in said)) order[++spoke] = test
  said[test] = said[test] $0 "\n"
}

function tell(  i) {
  for (i = 1; i <= spoke; i++) printf "%s", said[order[i]]
}

function forget(  i) {
  for (i = 1; i <= spoke; i++) delete said[order[i]]
  spoke = 0
  test = ""
}

END {
  tell()
  if (skips) {
    print "tests that did not run:"
    for (i = 1; i <= skips; i++) print skipped[i]
  }
  if (skips || failed) exit 1
  if (tests < least) {
    print "too few tests passed: " tests + 0 ", want at least " least
    exit 1
  }
  if (functions < declared) {
    print "too few tests passed: " functions + 0 " of the " declared " that the test files declare"
    exit 1
  }
  print tests + 0 " passed, 0 failed, 0 skipped"
}
