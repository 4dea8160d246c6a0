// Package arrows guards the architecture: its test parses the imports of every
// package of the workspace and fails on one that the table in table_test.go does
// not allow. It also fails on an Example that has no Output comment, since the
// go command compiles such an Example and never runs it.
package arrows
