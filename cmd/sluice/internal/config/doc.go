// Package config reads limits.yaml, the file of rate limiting rules.
//
//	# The proxies whose X-Forwarded-For is trusted.
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
// Parsing is strict: unknown fields are errors. [Parse] reports all errors of a file at
// once, each with its line, its field and the accepted values.
//
// [File.HTTPRules] makes the rules for HTTP requests. The server and the replay of a log
// both use them, so they decide alike.
package config
