// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package availability

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

const (
	// asker is who asks, as in every Kubernetes aggregator.
	asker = "system:kube-aggregator"
	// patience is how long an answer may take.
	patience = 5 * time.Second
	// maxBody is how long an answer may be.
	maxBody = 16 << 20
)

// probe asks servers for the discovery document of their version.
type probe struct {
	remoteservers.Servers
}

// ask returns nil if the APIService's server answers, and else an error that is the same as long as the reason is.
func (p probe) ask(ctx context.Context, service *apiregistrationv1.APIService) error {
	target, err := p.URL(service, "/apis/"+service.Spec.Group+"/"+service.Spec.Version)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// The group is allowed everything everywhere: whether the server answers is not a question of rights.
	response, err := p.Begin(ctx, service, target.String(), remoteservers.Question{User: asker, Groups: []string{user.SystemPrivilegedGroup}})
	if err != nil {
		return fmt.Errorf("failing or missing response from %s: %w", target.String(), stable(err))
	}
	defer func() { _ = response.Body.Close() }()
	// A server that begins to answer and does not come to an end is none that can be used.
	read, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxBody))
	if err != nil {
		return fmt.Errorf("failing or missing response from %s: %w", target.String(), stable(err))
	}
	if read == maxBody {
		return fmt.Errorf("endless response from %s: it has more than %d bytes", target.String(), maxBody)
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("bad status from %s: %d", target.String(), response.StatusCode)
	}
	return nil
}

// stable takes out of a network error what differs from one attempt to the next, such as our own port: a message that
// changes would be a write to the APIService each time.
func stable(err error) error {
	var operation *net.OpError
	if errors.As(err, &operation) {
		return fmt.Errorf("%s: %w", operation.Op, operation.Err)
	}
	return err
}
