// Package compare is the command sluice compare, with its page: policies side by side on one stream of requests.
//
//	service := compare.NewService()
//	http.Serve(listener, compare.Handler(service))
//
// The page is static files in the directory page. It draws, and sends each request to the service
// as a method with JSON: over HTTP, or in a web site to the same service in WebAssembly. All
// decisions come from Policy.Step, through package simulate.
//
// The methods are
//
//	compare   Query            -> Comparison: counts, bars and levels of each policy
//	explain   ExplainRequest   -> Decision: one decision with its whole Result
//	trace     ExplainRequest   -> Text: the calls of one policy as a trace for sluice replay --check
//	rules     Query            -> Text: the policies as limits.yaml
//	log       the bytes of an access log  -> Log: its id, for Stream.Log
//
// Times in JSON are seconds since Comparison.Start, and durations are seconds.
package compare
