// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
)

// namesIn lists the objects of a typed list.
func namesIn(t *testing.T, kind string, list any) []string {
	t.Helper()
	var names []string
	err := meta.EachListItem(list.(runtime.Object), func(object runtime.Object) error {
		accessor, err := meta.Accessor(object)
		if err == nil {
			names = append(names, kind+"/"+accessor.GetName())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// kubeconfigFor copies a kubeconfig with another server.
func kubeconfigFor(t *testing.T, path, server string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = server
	}
	copied := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, copied); err != nil {
		t.Fatal(err)
	}
	return copied
}
