// Package config reads limits.yaml, the file that says what is limited.
//
//	# Whose addresses X-Forwarded-For is believed of.
//	trusted: [10.0.0.0/24]
//
//	rules:
//	  - name: client
//	    policy: gcra 100/m burst=20
//	    by: ip
//	  - name: login
//	    policy: fixedwindow 5/h
//	    by: [ip, path]
//	    methods: [POST]
//	    paths: [/login]
//	    shadow: true
//	  - name: key
//	    policy: gcra 1000/h
//	    by: header:X-Api-Key
//	    missing: deny
//
// Reading is strict: what is not known is a fault. All faults are told at once, each
// with its line, its field and what would be accepted.
//
// One file makes the same rules wherever it is used. [File.HTTPRules] are those
// for requests, so that a replay of a log decides as a server does.
package config
