module github.com/sluice-go/sluice/benchmarks

go 1.25.0

require (
	github.com/sluice-go/sluice v0.0.0
	golang.org/x/time v0.14.0
)

replace github.com/sluice-go/sluice => ../
