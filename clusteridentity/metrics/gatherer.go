// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kube-annex/annex/clusteridentity"
)

// Labels that a Gatherer adds.
const (
	ClusterIDLabel  = "cluster_id"
	ClusterSetLabel = "clusterset"
)

// NewGatherer returns a gatherer that adds the labels cluster_id and clusterset to all series of inner, a registry of Prometheus or of
// k8s.io/component-base. A series that has one of the labels keeps it, and there is none for an id or a set that there is not.
func NewGatherer(inner prometheus.Gatherer, identity func() clusteridentity.Identity) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		// Gather may return both an error and what could be gathered.
		families, err := inner.Gather()
		labels := labelsOf(identity())
		if len(labels) == 0 {
			return families, err
		}
		labelled := make([]*dto.MetricFamily, 0, len(families))
		for _, family := range families {
			copied := shallow(family)
			copied.Metric = make([]*dto.Metric, 0, len(family.GetMetric()))
			for _, metric := range family.GetMetric() {
				series := shallow(metric)
				series.Label = merge(metric.GetLabel(), labels)
				copied.Metric = append(copied.Metric, series)
			}
			labelled = append(labelled, copied)
		}
		return labelled, err
	})
}

func labelsOf(identity clusteridentity.Identity) []*dto.LabelPair {
	var labels []*dto.LabelPair
	for _, label := range []struct{ name, value string }{{ClusterIDLabel, identity.ID}, {ClusterSetLabel, identity.ClusterSet}} {
		if label.value != "" {
			labels = append(labels, &dto.LabelPair{Name: &label.name, Value: &label.value})
		}
	}
	return labels
}

// merge returns the labels of a series and those of more that it does not have, sorted as everyone expects of a gatherer.
func merge(labels, more []*dto.LabelPair) []*dto.LabelPair {
	merged := slices.Clone(labels)
	for _, label := range more {
		has := func(l *dto.LabelPair) bool { return l.GetName() == label.GetName() }
		if !slices.ContainsFunc(labels, has) {
			merged = append(merged, label)
		}
	}
	slices.SortStableFunc(merged, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return merged
}

// shallow copies a message with all fields that it has, now and in later versions. What was gathered may belong to someone else.
func shallow[M interface {
	protoreflect.ProtoMessage
	*T
}, T any](message M) M {
	copied := M(new(T))
	message.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		copied.ProtoReflect().Set(field, value)
		return true
	})
	return copied
}
