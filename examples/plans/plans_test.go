// The test promises that each tenant has the limit of its plan, and that an unknown plan has its own status code.
package main

func Example() {
	main()
	// Output:
	// acme (free): 200, limited by plan
	// acme (free): 200, limited by plan
	// acme (free): 200, limited by plan
	// acme (free): 429, denied by plan
	// bits (paid): 200, limited by plan
	// cron (internal): 200, limited by everyone
	// dodo (piad): 500, rule plan: PolicyFor: tenant "dodo" has the unknown plan "piad"
}
