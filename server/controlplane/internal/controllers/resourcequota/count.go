// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// pageSize bounds what is held in memory of objects that a server only counts by listing.
const pageSize = 500

// counted is how many objects of a kind there are at a version.
type counted struct {
	number  int64
	version string
}

// count returns how many objects of a kind there are in a namespace.
func count(ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource, namespace string) (counted, error) {
	var total counted
	options := metav1.ListOptions{Limit: 1}
	for {
		page, err := client.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return counted{}, err
		}
		total.number, total.version = total.number+int64(len(page.Items)), page.ResourceVersion
		switch {
		case page.Continue == "":
			return total, nil
		case page.RemainingItemCount != nil:
			total.number += *page.RemainingItemCount
			return total, nil
		}
		options = metav1.ListOptions{Limit: pageSize, Continue: page.Continue}
	}
}
