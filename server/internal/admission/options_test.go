// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kubeadmission "k8s.io/apiserver/pkg/admission"

	"github.com/kube-annex/annex/server/internal/admission"
)

const kubeconfig = `{"apiVersion":"v1","kind":"Config","users":[{"name":"*","user":{"token":"secret"}}]}`

func TestOptionsNameEveryMistake(t *testing.T) {
	t.Parallel()
	plugin := admission.Plugin{Name: "Own", New: func(io.Reader) (kubeadmission.Interface, error) { return nil, errors.New("not made") }}
	const header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	inline := func(plugin, content string) string {
		return header + "- name: " + plugin + "\n  configuration: " + content + "\n"
	}
	for name, tc := range map[string]struct {
		options admission.Options
		file    string
		want    []string
	}{
		"nothing":                {},
		"a plugin of one's own":  {options: admission.Options{Plugins: []admission.Plugin{plugin}, DisabledPlugins: []string{"Own"}}},
		"two of one name":        {options: admission.Options{Plugins: []admission.Plugin{plugin, plugin}}, want: []string{"two admission plugins with the name Own"}},
		"an unknown one":         {options: admission.Options{DisabledPlugins: []string{"Nonsense", "Other"}}, want: []string{"no admission plugin Nonsense", "no admission plugin Other"}},
		"no file":                {options: admission.Options{ConfigFile: "/nowhere"}, want: []string{"--admission-control-config-file: open /nowhere"}},
		"no configuration":       {file: "hello", want: []string{"give an AdmissionConfiguration of apiserver.config.k8s.io/v1"}},
		"another kind":           {file: "apiVersion: v1\nkind: ConfigMap\n", want: []string{`no kind "ConfigMap"`}},
		"an unknown field":       {file: header + "- name: ValidatingAdmissionWebhook\n  nonsense: x\n", want: []string{`unknown field "plugins[0].nonsense"`}},
		"an unknown plugin":      {file: inline("PodSecurity", "{}"), want: []string{"there is no admission plugin PodSecurity"}},
		"no file of a plugin":    {file: header + "- name: ValidatingAdmissionWebhook\n  path: none.yaml\n", want: []string{"the configuration of ValidatingAdmissionWebhook: open ", "none.yaml"}},
		"garbage for webhooks":   {file: inline("MutatingAdmissionWebhook", "{}"), want: []string{"the configuration of MutatingAdmissionWebhook: ", "Kind"}},
		"no such kubeconfig":     {file: inline("MutatingAdmissionWebhook", `{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: /nowhere}`), want: []string{"kubeConfigFile", "/nowhere"}},
		"a relative kubeconfig":  {file: inline("MutatingAdmissionWebhook", `{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: x}`), want: []string{"must be an absolute file path"}},
		"a kubeconfig":           {file: inline("ValidatingAdmissionWebhook", `{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: DIR/kubeconfig}`)},
		"policies from files":    {file: inline("ValidatingAdmissionPolicy", `{apiVersion: apiserver.config.k8s.io/v1, kind: ValidatingAdmissionPolicyConfiguration, staticManifestsDir: DIR}`), want: []string{"the configuration of ValidatingAdmissionPolicy"}},
		"mutations from files":   {file: inline("MutatingAdmissionPolicy", `{apiVersion: apiserver.config.k8s.io/v1, kind: MutatingAdmissionPolicyConfiguration, staticManifestsDir: DIR}`), want: []string{"the configuration of MutatingAdmissionPolicy"}},
		"a file beside the file": {file: header + "- name: ValidatingAdmissionWebhook\n  path: webhooks.yaml\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range map[string]string{
				"kubeconfig":    kubeconfig,
				"webhooks.yaml": "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\nkubeConfigFile: " + filepath.Join(dir, "kubeconfig") + "\n",
				"config.yaml":   strings.ReplaceAll(tc.file, "DIR", dir),
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tc.file != "" {
				tc.options.ConfigFile = filepath.Join(dir, "config.yaml")
			}
			err := errors.Join(tc.options.Validate()...)
			if err == nil && len(tc.want) > 0 || err != nil && len(tc.want) == 0 {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}
