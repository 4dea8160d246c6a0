// The test promises that the program prints this output.
package main

func Example() {
	main()
	// Output:
	// second                                        0  7  8  9 10 11 12 13 14 16 18 20  allowed
	// gcra 4/10s                                    +  +  +  +  +  +  +  .  .  +  +  +       10
	// tokenbucket 4/10s refill=interval             +  +  +  +  +  +  +  +  .  .  .  +        9
	// fixedwindow 4/10s                             +  +  +  +  +  +  +  +  .  .  .  +        9
	// movingwindow 4/10s slots=10 trailing=whole    +  +  +  +  .  +  .  .  .  .  +  +        7
}
