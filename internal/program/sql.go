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

// Functions are PL/pgSQL functions that run programs and stacks of them.
type Functions struct {
	// Step is the name, without a schema, of the function that runs a program by its number:
	//
	//	step(program int, op int, state bytea, now bigint, cost bigint, times bigint, args bigint[]) returns bytea
	//
	// The parameters from op on and the result are those of Program.SQL.
	Step string
	// Run is the name of the function that decides the requests of a batch; see run.sql:
	//
	//	run(states bytea[], versions bigint[], version bigint, at bigint, requests int[], keys int[], ops int[], shadows int[],
	//		programs int[], begins int[], ends int[], costs bigint[], times bigint[], args bigint[]) returns (replies bytea[], counts bigint[])
	Run string
	// All are all functions. Those of the programs are first, in the order of their numbers.
	All []Function

	numbers map[string]int32
}

// Function is a PL/pgSQL function. Its name ends in a hash of its text, so several versions of it can
// exist in one schema.
type Function struct {
	Name       string
	Parameters string
	Attributes string
	Body       string
	// Uses has the names that replace placeholders in the body. If it is not nil, the schema replaces
	// SCHEMA.
	Uses map[string]string
}

const (
	parameters     = "(op int, state bytea, now bigint, cost bigint, times bigint, args bigint[]) RETURNS bytea"
	stepParameters = "(program int, op int, state bytea, now bigint, cost bigint, times bigint, args bigint[]) RETURNS bytea"
	runParameters  = "(states bytea[], versions bigint[], version bigint, at bigint, requests int[], keys int[], ops int[], shadows int[], " +
		"programs int[], begins int[], ends int[], costs bigint[], times bigint[], args bigint[], OUT replies bytea[], OUT counts bigint[])"
	pure = " IMMUTABLE PARALLEL SAFE"
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
	f := &Functions{numbers: map[string]int32{}}
	var calls strings.Builder
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		f.numbers[name] = int32(i + 1)
		each := Function{FunctionName(name, parameters+texts[name]), parameters, pure, texts[name], nil}
		f.All = append(f.All, each)
		fmt.Fprintf(&calls, "\tIF program = %d THEN RETURN SCHEMA.%s(op, state, now, cost, times, args); END IF;\n", i+1, quote(each.Name))
	}
	// Step and the function for stacks call each other, so both names have a hash of both texts.
	f.Step = FunctionName("step", stepParameters+calls.String()+stackSQL)
	f.Run = FunctionName("run", f.Step+runParameters+runSQL)
	stacks := FunctionName(stackName, calls.String()+stackSQL)
	step := fmt.Sprintf("BEGIN\n%s\tRETURN SCHEMA.%s(op, state, now, cost, times, args);\nEND\n", calls.String(), quote(stacks))
	f.All = append(f.All,
		Function{stacks, parameters, pure, stackSQL, map[string]string{"STEP": f.Step}},
		Function{f.Step, stepParameters, pure, step, map[string]string{}},
		Function{f.Run, runParameters, pure, runSQL, map[string]string{"STEP": f.Step}})
	return f, nil
}

// Create returns the statements that create functions. If schema is empty, they create them in the
// first schema of search_path.
func Create(schema string, functions ...Function) string {
	var b strings.Builder
	for _, f := range functions {
		fmt.Fprintf(&b, "CREATE OR REPLACE FUNCTION %s%s%s\nLANGUAGE plpgsql%s AS $sluice$%s$sluice$;\n", prefix(schema), quote(f.Name), f.Parameters, f.Attributes, f.Source(schema))
	}
	return b.String()
}

// Source returns the text that the server stores in pg_proc.prosrc if Create creates the function in
// the schema.
func (f *Function) Source(schema string) string {
	if f.Uses == nil {
		return "\n" + f.Body
	}
	replacements := []string{"SCHEMA.", prefix(schema)}
	for placeholder, name := range f.Uses {
		replacements = append(replacements, placeholder, quote(name))
	}
	return "\n" + strings.NewReplacer(replacements...).Replace(f.Body)
}

// prefix returns the schema and a dot, or "" if the schema is empty.
func prefix(schema string) string {
	if schema == "" {
		return ""
	}
	return quote(schema) + "."
}

// Runs reports whether the functions can run a program.
func (f *Functions) Runs(p *algo.Program) bool {
	return Every(p, func(p *algo.Program) bool {
		number := f.numbers[p.Name]
		return number > 0 && f.All[number-1].Body == p.SQL
	})
}

// Call returns the arguments of Step for a program: its number and args.
func (f *Functions) Call(p *algo.Program) (number int32, args []int64) {
	if !IsStack(p) {
		return f.numbers[p.Name], p.Args
	}
	args = []int64{int64(len(p.Parts))}
	for i := range p.Parts {
		part, own := f.Call(&p.Parts[i])
		args = append(append(args, int64(part), int64(len(own))), own...)
	}
	return stackNumber, args
}

// FunctionName returns the name of a function with this text. Of the given name it contains at most
// 40 bytes.
func FunctionName(name, text string) string {
	const maxNameLen = 40
	hash := sha256.Sum256([]byte(text))
	return fmt.Sprintf("sluice_%s_%x", strings.ToValidUTF8(name[:min(len(name), maxNameLen)], ""), hash[:4])
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
