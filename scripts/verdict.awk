# verdict.awk reads `go test -v ./...` and prints what plain `go test ./...`
# would: a package's closing line, and before it, if it failed, what was said by
# the tests that did not pass. Skipped tests are named at the end, and fail the
# run, as do fewer tests than least.

/^=== (RUN|PAUSE|CONT|NAME) / { test = $3; next }
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
    print "too few tests ran: " tests + 0
    exit 1
  }
  if (tests) print tests " passed, 0 failed, 0 skipped"
}
