// Package ordeal puts limiters on a store across a network through every fault
// that may befall every message of a run:
//
//	ordeal.Run(t, func(t *testing.T) ordeal.Subject {
//		proxy := faultproxy.Redis(t, server.Addr())
//		return ordeal.Subject{Proxy: proxy, Store: storeOn(proxy.Addr()), Truth: storeOn(server.Addr())}
//	})
//
// A run is some dozen decisions by two limiters that take turns, so that each
// finds what the other wrote. It has a fault at one message, the n-th, and there
// is a run for every n and every kind of fault. What the callers were told is
// then compared with what is stored:
//
//   - what was admitted is what was used, but for the decisions that were told to
//     be in doubt, which is at most the one that met the fault
//   - no bound is passed
//   - a denial is true
//   - nothing else fails where time was left to ask again
//   - a call ends with its timeout, or its context
package ordeal
