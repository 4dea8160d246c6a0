# summary.awk reads the output of `go test -v ./...` and prints that of `go test ./...`: a
# line for each package, and before it, if the package failed, the output of the tests that
# did not pass.
#
# It fails if a package failed, if a test was skipped, or if no test passed. At the end it lists
# the skipped tests.

/^=== (RUN|PAUSE|CONT|NAME) / { test = $3; next }
/^[ \t]*--- PASS: / { tests++; delete output[$3]; test = ""; next }
/^[ \t]*--- SKIP: / { skipped[++skip_count] = output[$3] $0; test = ""; next }
/^[ \t]*--- FAIL: / { test = $3 }
/^PASS$/ { next }

/^ok  \t|^\?   \t|^\t.*coverage: / { print; fflush(); clear_output(); next }
/^FAIL\t/ { print_output(); print; fflush(); failed++; clear_output(); next }

{
  if (!(test in output)) order[++outputs] = test
  output[test] = output[test] $0 "\n"
}

function print_output(  i) {
  for (i = 1; i <= outputs; i++) printf "%s", output[order[i]]
}

function clear_output(  i) {
  for (i = 1; i <= outputs; i++) delete output[order[i]]
  outputs = 0
  test = ""
}

END {
  print_output()
  if (skip_count) {
    print "tests that did not run:"
    for (i = 1; i <= skip_count; i++) print skipped[i]
  }
  if (skip_count || failed) exit 1
  if (!tests) {
    print "no test has run"
    exit 1
  }
  print tests + 0 " passed, 0 failed, 0 skipped"
}
