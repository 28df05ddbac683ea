// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/test/framework"
)

// TestExplain is about the whole way from the documents to what a user of kubectl reads.
func TestExplain(t *testing.T) {
	t.Parallel()
	ofKube, ofAnnex := framework.NewKubectl(t, root, kube.kubeconfig), framework.NewKubectl(t, root, annex.kubeconfig)
	for path, group := range sharedVersions(t) {
		for name := range named(mustGet(t, annex, path).object["resources"], "name") {
			if strings.Contains(name, "/") {
				continue
			}
			t.Run(group+"/"+name, func(t *testing.T) {
				t.Parallel()
				version := strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
				args := []string{"explain", "--recursive", "--api-version=" + version, name}
				if diff := cmp.Diff(ofKube.Run(t, args...), ofAnnex.Run(t, args...)); diff != "" {
					t.Errorf("kubectl %s (-kube-apiserver,+annex):\n%s", strings.Join(args, " "), diff)
				}
			})
		}
	}
}
