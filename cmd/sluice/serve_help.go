package main

const serveHelp = `Serve stands in front of a program and limits the requests that come to it, or
answers other programs that ask whether something is allowed, or both. Both go by
the same rules and share what is used.

WIP`

const serveExamples = `  sluice serve --limit "gcra 100/m burst=20" --by ip --upstream http://localhost:3000
  sluice serve --config limits.yaml --upstream http://localhost:3000 --listen :8080 --store sqlite:limits.db
  sluice serve --config limits.yaml --api unix:/tmp/sluice.sock --store redis://localhost:6379
  curl --unix-socket /tmp/sluice.sock -d '{"key":"user:42","cost":3,"limit":"api"}' http://sluice/v1/allow`
