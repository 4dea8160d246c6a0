// Package readme holds the code that the README shows, so that it compiles and
// passes, and the test that the README shows nothing else.
package readme
