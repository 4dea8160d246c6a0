// Package httpsfvtest compares the structured fields that this project reads and writes
// with github.com/dunglas/httpsfv. It is a module of its own, so that a program that uses
// httplimit does not get that dependency.
package httpsfvtest
