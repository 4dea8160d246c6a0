// Package faultproxy stands between a client and a Redis or Postgres server in
// a test, and damages chosen exchanges:
//
//	proxy := faultproxy.Redis(t, server.Addr())
//	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
//	proxy.Plan(faultproxy.Fault{At: 3, Kind: faultproxy.DropReply})
//
// An exchange is a request and its reply: with Redis one command, with Postgres
// all messages up to the server's ReadyForQuery, the start of the connection
// among them. Exchanges are numbered from 1 in the order in which their requests
// arrive, over all connections. A client that speaks from one goroutine meets
// its faults at the same place in every run.
//
// A fault hits one exchange. Earlier ones of the same connection are answered;
// what the client had sent after it, in a pipeline, never reaches the server.
//
// The proxy reads the protocol, so it wants neither TLS, nor passwords, COPY or
// pipelines with Flush in Postgres, nor subscriptions or CLIENT REPLY in Redis.
package faultproxy
