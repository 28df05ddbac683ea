// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/internal/logonce"
)

const (
	// rereadInterval is how often the file is looked at.
	rereadInterval = 5 * time.Second
	// takeover is how long issuers that were removed may finish what they judge.
	takeover = time.Minute
)

// issuers judge tokens by what the file says at the moment.
type issuers struct {
	path      string
	own       []string
	id        string
	audiences authenticator.Audiences
	current   atomic.Pointer[generation]
}

// generation is what one content of the file makes.
type generation struct {
	file   *file
	tokens authenticator.Token
	stop   context.CancelFunc
}

// AuthenticateToken implements authenticator.Token.
func (i *issuers) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	return i.current.Load().tokens.AuthenticateToken(ctx, token)
}

// start asks the issuers for their keys, until the context ends.
func (i *issuers) start(ctx context.Context, f *file) (*generation, error) {
	ctx, stop := context.WithCancel(ctx)
	var each []authenticator.Token
	for _, jwt := range f.JWT {
		one, err := i.issuer(ctx, jwt)
		if err != nil {
			stop()
			return nil, fmt.Errorf("set up the issuer %s of --authentication-config: %w", jwt.Issuer.URL, err)
		}
		each = append(each, one)
	}
	return &generation{file: f, tokens: authenticator.WrapAudienceAgnosticToken(i.audiences, union.NewFailOnError(each...)), stop: stop}, nil
}

func (i *issuers) issuer(ctx context.Context, jwt apiserver.JWTAuthenticator) (authenticator.Token, error) {
	o := oidc.Options{JWTAuthenticator: jwt, SupportedSigningAlgs: oidc.AllValidSigningAlgorithms(), DisallowedIssuers: i.own, APIServerID: i.id}
	if authority := jwt.Issuer.CertificateAuthority; authority != "" {
		trusted, err := dynamiccertificates.NewStaticCAContent("token-issuer", []byte(authority))
		if err != nil {
			return nil, err
		}
		o.CAContentProvider = trusted
	}
	return oidc.New(ctx, o)
}

// follow reads the file again and again, until the context ends.
func (i *issuers) follow(ctx context.Context) {
	ticker := time.NewTicker(rereadInterval)
	defer ticker.Stop()
	var logged logonce.Error
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := i.reread(ctx); logged.Changed(err) && err != nil {
			klog.FromContext(ctx).Error(err, "The authentication configuration has changed and cannot be used; the one before stays in force", "file", i.path)
		}
	}
}

// reread replaces the configuration by that in the file, if that has changed.
func (i *issuers) reread(ctx context.Context) error {
	before := i.current.Load()
	next, err := read(i.path, i.own)
	if err != nil || next.content == before.file.content {
		return err
	}
	started, err := i.start(ctx, next)
	if err != nil {
		return err
	}
	i.current.Store(started)
	time.AfterFunc(takeover, before.stop)
	klog.FromContext(ctx).Info("The authentication configuration was read again", "file", i.path, "issuers", len(next.JWT))
	return nil
}
