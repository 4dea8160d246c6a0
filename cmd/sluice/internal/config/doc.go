// Package config reads limits.yaml, the file of rate limiting rules. "sluice check --help"
// describes the file.
//
// Parsing is strict: unknown fields are errors. [Parse] reports all errors of a file at
// once, each with its line, its field and the accepted values.
//
// [File.HTTPRules] makes the rules for HTTP requests. The server and the replay of a log
// both use them, so they decide alike.
package config
