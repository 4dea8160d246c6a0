package program

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/algo"
)

//go:embed stack.sql
var stackSQL string

// Functions are PL/pgSQL functions that run programs and stacks of them. See [algo.Program].SQL for their
// parameters.
type Functions struct {
	// All are the functions: those of the programs, in the order of their numbers, and that of stacks.
	All []Function

	numbers map[string]int64
	stack   string // the name of the function of stacks
}

// Function is a PL/pgSQL function. Its name ends in a hash of its text, so several versions of it can
// exist in one schema.
type Function struct {
	Name       string
	Parameters string
	Attributes string
	Body       string // SCHEMA. stands before the names of functions and tables
}

const (
	programParameters = "(op int, INOUT state bytea, now bigint, cost bigint, INOUT times bigint, args bigint[], OUT ttl bigint)"
	programAttributes = " IMMUTABLE PARALLEL SAFE"
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
	f := &Functions{numbers: map[string]int64{}}
	names := ""
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		f.numbers[name] = int64(i + 1)
		f.All = append(f.All, Function{FunctionName(name, programParameters+texts[name]), programParameters, programAttributes, texts[name]})
		names += f.All[i].Name
	}
	f.stack = FunctionName(stackName, names+stackSQL) // the function calls itself, so its text contains this name
	f.All = append(f.All, Function{f.stack, programParameters, programAttributes, f.expand(stackSQL)})
	return f, nil
}

// Function returns a function with a body that can run programs:
//
//	r := STEP(number, op, state, now, cost, times, args);
//
// assigns the result of a program to a record. number and args are those of AppendCall. SCHEMA.TABLE in the body
// stands for the table.
func (f *Functions) Function(name, parameters, attributes, body, table string) Function {
	body = strings.ReplaceAll(f.expand(body), "SCHEMA.TABLE", "SCHEMA."+quote(table))
	return Function{FunctionName(name, parameters+attributes+body), parameters, attributes, body}
}

var step = regexp.MustCompile(`(\w+) := STEP\(([^,]+), (.*)\);`)

// expand replaces each STEP by calls of the functions. This is faster than one function that calls the others by number.
func (f *Functions) expand(body string) string {
	var calls strings.Builder
	for i, each := range f.All[:len(f.numbers)] {
		fmt.Fprintf(&calls, "IF $2 = %d THEN $1 := SCHEMA.%s($3); ELS", i+1, strings.ReplaceAll(quote(each.Name), "$", "$$"))
	}
	fmt.Fprintf(&calls, "IF $2 = %d THEN $1 := SCHEMA.%s($3); END IF;", stackNumber, quote(f.stack))
	return step.ReplaceAllString(body, calls.String())
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
	return "\n" + strings.ReplaceAll(f.Body, "SCHEMA.", prefix(schema))
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

// AppendCall returns the number of a program, and appends its arguments to args.
func (f *Functions) AppendCall(args []int64, p *algo.Program) (number int64, all []int64) {
	if !IsStack(p) {
		return f.numbers[p.Name], append(args, p.Args...)
	}
	args = append(args, int64(len(p.Parts)))
	for i := range p.Parts {
		at := len(args)
		part, next := f.AppendCall(append(args, 0, 0), &p.Parts[i])
		next[at], next[at+1], args = part, int64(len(next)-at-2), next
	}
	return stackNumber, args
}

// FunctionName returns the name of a function with this text. It has at most 40 bytes of the given name.
func FunctionName(name, text string) string {
	const maxNameLen = 40
	hash := sha256.Sum256([]byte(text))
	return fmt.Sprintf("sluice_%s_%x", strings.ToValidUTF8(name[:min(len(name), maxNameLen)], ""), hash[:4])
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
