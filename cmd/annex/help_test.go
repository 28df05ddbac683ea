// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	cliflag "k8s.io/component-base/cli/flag"
)

var (
	sectionLine = regexp.MustCompile(`^([A-Z][a-z ]+) flags:$`)
	flagLine    = regexp.MustCompile(`^  (?:-\w, |    )--([\w-]+)`)
)

// sectionsOf are the flags that a command's help shows, by section. A flag that it shows twice is there twice.
func sectionsOf(t *testing.T, command *cobra.Command) (shown map[string][]string) {
	t.Helper()
	var out bytes.Buffer
	command.SetOut(&out)
	if err := command.Help(); err != nil {
		t.Fatal(err)
	}
	shown = map[string][]string{}
	section := ""
	for line := range strings.Lines(out.String()) {
		if found := sectionLine.FindStringSubmatch(strings.TrimSuffix(line, "\n")); found != nil {
			section = found[1]
		} else if found := flagLine.FindStringSubmatch(line); found != nil {
			shown[section] = append(shown[section], found[1])
		}
	}
	return shown
}

// TestHelpHasEachFlagInOneSection goes through all commands. The sections are those of kube-apiserver and kube-controller-manager, as far as
// they have them.
func TestHelpHasEachFlagInOneSection(t *testing.T) {
	t.Parallel()
	upstream := []string{
		"Generic", "Etcd", "Secure serving", "Auditing", "Features", "Authentication", "Authorization", "Admission", "Metrics", "Logs", "Traces", "Misc",
		"Leader election", "Global",
	}
	own := []string{
		"Cluster", "Certificate signing", "Feature gates", "Cluster identity", "Feature observer", "Node balloons", "Registration", "Import", "Export", "User", "Output",
	}
	known := slices.Concat(upstream, own)
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		t.Run(command.CommandPath(), func(t *testing.T) {
			times := map[string]int{}
			for section, flags := range sectionsOf(t, command) {
				if !slices.Contains(known, section) {
					t.Errorf("there is a section %q; are the names of sections right?", section)
				}
				for _, name := range flags {
					times[name]++
					if command.Flags().Lookup(name) == nil {
						t.Errorf("--%s is shown and not known", name)
					}
				}
			}
			command.Flags().VisitAll(func(flag *pflag.Flag) {
				if !flag.Hidden && times[flag.Name] != 1 {
					t.Errorf("--%s is in %d sections, want one", flag.Name, times[flag.Name])
				}
			})
		})
		for _, below := range command.Commands() {
			walk(below)
		}
	}
	walk(newRoot())
}

func TestHelpHasTheUsualSections(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[string]string{
		"controlplane": {
			"Generic": "request-timeout", "Etcd": "etcd-servers", "Secure serving": "tls-cert-file", "Auditing": "audit-policy-file",
			"Features": "enable-priority-and-fairness", "Authentication": "client-ca-file", "Authorization": "authorization-webhook-config-file",
			"Admission": "admission-control-config-file", "Leader election": "leader-elect-lease-duration", "Traces": "tracing-config-file",
			"Metrics": "disabled-metrics", "Logs": "v", "Misc": "event-ttl", "Global": "help",
		},
		"apiserver": {
			"Generic": "request-timeout", "Etcd": "etcd-servers", "Secure serving": "cert-dir", "Cluster": "kubeconfig", "Authorization": "authorization-always-allow-paths",
			"Feature gates": "dynamic-features", "Cluster identity": "clusterset-hub-kubeconfig", "Traces": "tracing-config-file",
		},
		"controllers": {"Cluster": "kubeconfig", "Leader election": "leader-elect-mark-writes", "Node balloons": "node-balloons", "Metrics": "disabled-metrics"},
		"up":          {"Generic": "data-dir", "Secure serving": "extension-port", "Etcd": "etcd-quota-bytes", "Feature gates": "features", "Logs": "log-file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command, _, err := newRoot().Find([]string{name})
			if err != nil {
				t.Fatal(err)
			}
			shown := sectionsOf(t, command)
			for section, flag := range want {
				if !slices.Contains(shown[section], flag) {
					t.Errorf("--%s is not in the section %s, which has %v", flag, section, shown[section])
				}
			}
		})
	}
}

func TestHelpIsAsWideAsTheTerminal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ columns, longest int }{"no terminal": {0, 400}, "a terminal": {90, 90}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sections cliflag.NamedFlagSets
			sections.FlagSet("generic").String("colour", "", strings.Repeat("very ", 50)+"colourful")
			var out bytes.Buffer
			help(&cobra.Command{Use: "test", Short: "Tests"}, &sections, &out, tc.columns)
			longest := 0
			for line := range strings.Lines(out.String()) {
				longest = max(longest, len(line)-1)
			}
			if longest > tc.longest || tc.columns == 0 && longest < 200 {
				t.Errorf("the longest line has %d columns, want %d:\n%s", longest, tc.columns, out.String())
			}
		})
	}
}
