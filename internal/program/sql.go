package program

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/algo"
)

var (
	//go:embed stack.sql
	stackSQL string
	//go:embed run.sql
	runSQL string
)

// Functions are PL/pgSQL functions that run programs and stacks of them. The name of a function ends in
// a hash of its text, so several versions of a function can exist in one schema.
type Functions struct {
	// Step is the name, without a schema, of the function that runs a program by its number:
	//
	//	step(program int, op int, state bytea, at bigint, cost bigint, times bigint, args bigint[]) returns bytea
	//
	// The parameters from op on and the result are those of Program.SQL.
	Step string
	// Run is the name of the function that decides the requests of a batch; see run.sql:
	//
	//	run(states bytea[], versions bigint[], version bigint, at bigint, requests int[], keys int[], ops int[], shadows int[],
	//		programs int[], begins int[], ends int[], costs bigint[], times bigint[], args bigint[]) returns (replies bytea[], counts bigint[])
	Run string

	all     []function
	texts   map[string]string
	numbers map[string]int32
}

// function is one of the functions. If it calls others, its body has SCHEMA in place of the schema.
type function struct {
	name, parameters, body string
	calls                  bool
}

const (
	parameters     = "(op int, state bytea, at bigint, cost bigint, times bigint, args bigint[]) RETURNS bytea"
	stepParameters = "(program int, op int, state bytea, at bigint, cost bigint, times bigint, args bigint[]) RETURNS bytea"
	runParameters  = "(states bytea[], versions bigint[], version bigint, at bigint, requests int[], keys int[], ops int[], shadows int[], " +
		"programs int[], begins int[], ends int[], costs bigint[], times bigint[], args bigint[], OUT replies bytea[], OUT counts bigint[])"
)

// stackNumber is the number of the program for stacks. The numbers of other programs begin at 1.
const stackNumber = 0

// SQL returns the functions for programs and for stacks of them. It ignores programs without SQL. It
// returns an error if two programs have the same name and different code.
func SQL(programs ...algo.Program) (*Functions, error) {
	leaves := AppendLeaves(nil, &algo.Program{Parts: programs})
	leaves = slices.DeleteFunc(leaves, func(p *algo.Program) bool { return p.SQL == "" })
	texts, err := collect(leaves, func(p *algo.Program) string { return p.SQL })
	if err != nil {
		return nil, err
	}
	f := &Functions{texts: texts, numbers: map[string]int32{}}
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		f.numbers[name] = int32(i + 1)
		f.all = append(f.all, function{name: functionName(name, parameters+texts[name]), parameters: parameters, body: texts[name]})
	}
	f.addCallers()
	return f, nil
}

// addCallers adds the functions that call the programs. Step and the function for stacks call each
// other, so both names have a hash of both texts.
func (f *Functions) addCallers() {
	var calls strings.Builder
	for i, program := range f.all {
		fmt.Fprintf(&calls, "\tIF program = %d THEN RETURN SCHEMA.%s(op, state, at, cost, times, args); END IF;\n", i+1, quote(program.name))
	}
	f.Step = functionName("step", stepParameters+calls.String()+stackSQL)
	f.Run = functionName("run", f.Step+runParameters+runSQL)
	stacks := functionName(stackName, calls.String()+stackSQL)
	step := fmt.Sprintf("BEGIN\n%s\tRETURN SCHEMA.%s(op, state, at, cost, times, args);\nEND\n", calls.String(), quote(stacks))
	f.all = append(f.all,
		function{stacks, parameters, strings.ReplaceAll(stackSQL, "STEP", quote(f.Step)), true},
		function{f.Step, stepParameters, step, true},
		function{f.Run, runParameters, strings.ReplaceAll(runSQL, "STEP", quote(f.Step)), true})
}

// Names returns the names of all functions.
func (f *Functions) Names() (names []string) {
	for _, function := range f.all {
		names = append(names, function.name)
	}
	return names
}

// Create returns the statements that create the functions with these names. If schema is empty, they
// create them in the first schema of search_path.
func (f *Functions) Create(schema string, names ...string) string {
	if schema != "" {
		schema = quote(schema) + "."
	}
	var b strings.Builder
	for _, function := range f.all {
		if !slices.Contains(names, function.name) {
			continue
		}
		body := function.body
		if function.calls {
			body = strings.ReplaceAll(body, "SCHEMA.", schema)
		}
		fmt.Fprintf(&b, "CREATE OR REPLACE FUNCTION %s%s%s\nLANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $sluice$\n%s$sluice$;\n",
			schema, quote(function.name), function.parameters, body)
	}
	return b.String()
}

// Runs reports whether the functions can run a program.
func (f *Functions) Runs(p *algo.Program) bool {
	return Every(p, func(p *algo.Program) bool { return p.SQL != "" && f.texts[p.Name] == p.SQL })
}

// Call returns the arguments of Step for a program: its number and args.
func (f *Functions) Call(p *algo.Program) (number int32, args []int64) {
	if len(p.Parts) == 0 {
		return f.numbers[p.Name], p.Args
	}
	args = []int64{int64(len(p.Parts))}
	for i := range p.Parts {
		part, own := f.Call(&p.Parts[i])
		args = append(append(args, int64(part), int64(len(own))), own...)
	}
	return stackNumber, args
}

// maxNameLen is the maximum length of a program's name in the name of its function, in bytes.
const maxNameLen = 40

func functionName(name, text string) string {
	hash := sha256.Sum256([]byte(text))
	return fmt.Sprintf("sluice_%s_%x", strings.ToValidUTF8(name[:min(len(name), maxNameLen)], ""), hash[:4])
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
