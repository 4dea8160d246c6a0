// The test promises that the program prints this output.
package main

func Example() {
	main()
	// Output:
	// allowed, 2 left
	// allowed, 1 left
	// allowed, 0 left
	// denied, try again in 1h0m0s
}
