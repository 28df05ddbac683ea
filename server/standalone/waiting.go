// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// sayWhatIsMissing tells the user what the control plane waits for, if it answers at all and that is not what was said before. It may be
// something that only the user can put right, such as a webhook that refuses what the control plane writes.
func (s *Server) sayWhatIsMissing(ctx context.Context, before string) (said string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client, err := rest.HTTPClientFor(s.AdminConfig())
	if err != nil {
		return before
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.hostURL+"/readyz", nil)
	if err != nil {
		return before
	}
	response, err := client.Do(request)
	if err != nil {
		return before
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	var missing []string
	for line := range strings.Lines(string(body)) {
		if check, failed := strings.CutPrefix(line, "[-]"); failed {
			missing = append(missing, strings.Fields(check)[0])
		}
	}
	now := strings.Join(missing, ", ")
	if now != "" && now != before {
		s.say("control plane: waiting for %s, with KUBECONFIG=%s you can look into it", now, s.Kubeconfig())
	}
	return now
}
