# verdict.awk reads `go test -v ./...` and prints what plain `go test ./...`
# would: a package's closing line, and before it all that the package said if
# it failed. Skipped tests are named at the end, and fail the run, as do fewer
# tests than least.

/^=== (RUN|PAUSE|CONT|NAME) / { next }
/^[ \t]*--- PASS: / { tests++; next }
/^[ \t]*--- SKIP: / { skipped[++skips] = last $0; next }
/^PASS$/ { next }

/^ok  \t|^\?   \t|^\t.*coverage: / { print; fflush(); said = last = ""; next }
/^FAIL\t/ { printf "%s%s\n", said, $0; fflush(); failed++; said = last = ""; next }

{
  said = said $0 "\n"
  last = $0 "\n" # a skip's reason is the line before it
}

END {
  printf "%s", said
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
