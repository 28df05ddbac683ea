// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
)

var quiet = klog.Logger{}

func TestTroubleIsLoggedWhenItBeginsChangesAndEnds(t *testing.T) {
	t.Parallel()
	var output bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&output)))
	var s troubles
	resource := v1alpha1.SchemeGroupVersion.WithResource("clusterclaims").GroupResource()
	for _, step := range []struct {
		request string
		err     error
		want    string
	}{
		{"list", nil, ""},
		{"list", errors.New("port 1 is closed"), "port 1 is closed"},
		{"watch", errors.New("port 2 is closed"), ""},
		{"list", nil, ""},
		{"watch", apierrors.NewForbidden(resource, "id.k8s.io", errors.New("not you")), "not you"},
		{"watch", apierrors.NewForbidden(resource, "id.k8s.io", errors.New("nor you")), ""},
		{"watch", nil, "can be read again"},
		{"watch", nil, ""},
	} {
		output.Reset()
		s.note(logger, step.request, step.err)
		if said := output.String(); (said != "") != (step.want != "") || !strings.Contains(said, step.want) {
			t.Errorf("after %q of %s the log says %q, want %q", step.err, step.request, said, step.want)
		}
	}
	if err := s.first(); err != nil {
		t.Errorf("there is trouble left: %v", err)
	}
}
