// Package readme tests the README: its Go code is that of package sluice, of tests of this
// package or of the examples directory, its links lead somewhere, its policies are
// policies, and its commands are run, against servers of the tests' own.
package readme
