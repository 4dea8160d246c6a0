module github.com/sluice-go/sluice/internal/structured/httpsfvtest

go 1.25.0

require (
	github.com/dunglas/httpsfv v1.1.2
	github.com/sluice-go/sluice v0.0.0
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/sluice-go/sluice => ../../..
