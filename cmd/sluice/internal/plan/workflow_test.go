package plan

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

// planWorkflow has the parts of docs/workflows/limits-plan.yml that run on any machine.
type planWorkflow struct {
	Jobs struct {
		Plan struct {
			Env   map[string]string
			Steps []struct{ Name, Run string }
		}
	}
}

// withoutGit removes the variables of Git. If a test runs in a hook, they name the repository of the
// hook, and the test must not change that.
func withoutGit(environment []string) []string {
	return slices.DeleteFunc(environment, func(variable string) bool { return strings.HasPrefix(variable, "GIT_") })
}

// TestWorkflowComparesTheRulesOfAPullRequest runs the last step of the workflow in a repository
// with a merge, as GitHub does. A script with the name sluice runs this program.
func TestWorkflowComparesTheRulesOfAPullRequest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "workflows", "limits-plan.yml"))
	require.NoError(t, err)
	var workflow planWorkflow
	require.NoError(t, yaml.Unmarshal(text, &workflow))
	plan := workflow.Jobs.Plan
	step := plan.Steps[len(plan.Steps)-1]
	require.Equal(t, "Compare the rules before and after the change", step.Name)

	program, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "sluice"), []byte(fmt.Sprintf("#!/bin/sh\nSLUICE_TEST_MAIN=1 exec '%s' \"$@\"\n", program)), 0o755))
	for name, c := range map[string]struct {
		before, after string // empty: there is no file
		exitCode      int
		summary       string // how it begins
	}{
		"new file":      {"", clitest.OneRule, 0, "limits.yaml is new, so there is nothing to compare it with."},
		"within":        {oneRuleOf("policy: fixedwindow 9/h, by: ip"), oneRuleOf("policy: fixedwindow 8/h, by: ip"), 0, "**All thresholds are kept.** "},
		"beyond":        {oneRuleOf("policy: fixedwindow 9/h, by: ip"), oneRuleOf("policy: fixedwindow 1/h, by: ip"), 1, "**A threshold is exceeded.** Of 4 requests, 2 are newly denied"},
		"invalid rules": {clitest.OneRule, "rules: []", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, temp := t.TempDir(), t.TempDir()
			shell := func(script string) (string, int) {
				command := exec.Command("bash", "-e", "-c", script)
				command.Dir = dir
				command.Env = append(withoutGit(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"), "RUNNER_TEMP="+temp, "GITHUB_STEP_SUMMARY="+filepath.Join(temp, "summary.md"),
					"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_GLOBAL=/dev/null")
				for name, value := range plan.Env {
					command.Env = append(command.Env, name+"="+value)
				}
				out, _ := command.CombinedOutput()
				return string(out), command.ProcessState.ExitCode()
			}
			commit := func(rules string) {
				if rules != "" {
					require.NoError(t, os.WriteFile(filepath.Join(dir, "limits.yaml"), []byte(rules), 0o600))
				}
				out, exitCode := shell("git add -A; git commit -q --allow-empty -m change")
				require.Zero(t, exitCode, out)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, plan.Env["LOG"]), []byte(clitest.Gzipped(clitest.FourLines)), 0o600))
			out, exitCode := shell("git init -q")
			require.Zero(t, exitCode, out)
			commit(c.before)
			out, exitCode = shell("git branch base; git checkout -q -b change")
			require.Zero(t, exitCode, out)
			commit(c.after)
			out, exitCode = shell("git checkout -q base; git commit -q --allow-empty -m other; git merge -q --no-ff -m merge change")
			require.Zero(t, exitCode, out)

			out, exitCode = shell(step.Run)
			require.Equal(t, c.exitCode, exitCode, out)
			summary, err := os.ReadFile(filepath.Join(temp, "summary.md"))
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(summary), c.summary), "%s%s", summary, out)
			if c.exitCode == 2 {
				require.Contains(t, out, "limits.yaml:1: rules: ")
			}
		})
	}
}
