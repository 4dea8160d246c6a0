package main

import (
	"context"
	"fmt"
)

func Example() {
	err := run(context.Background(), nil)
	fmt.Println(err)
	// Output:
	// welcome
	// welcome
	// denied by rule address
	// <nil>
}
