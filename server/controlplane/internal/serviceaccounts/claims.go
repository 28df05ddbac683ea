// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccounts

import (
	"encoding/json"

	"github.com/go-jose/go-jose/v4/jwt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// legacyIssuer is the issuer of tokens in Secrets, in every cluster.
const legacyIssuer = "kubernetes/serviceaccount"

// claims are what a token says, under the names that Kubernetes has for it.
type claims struct {
	Issuer    string           `json:"iss,omitempty"`
	Subject   string           `json:"sub,omitempty"`
	Audience  audiences        `json:"aud,omitempty"`
	Expiry    *jwt.NumericDate `json:"exp,omitempty"`
	NotBefore *jwt.NumericDate `json:"nbf,omitempty"`
	IssuedAt  *jwt.NumericDate `json:"iat,omitempty"`
	ID        string           `json:"jti,omitempty"`

	// Bound is set in tokens that were asked for.
	Bound *bound `json:"kubernetes.io,omitempty"`

	// The rest is set in tokens in Secrets.
	Namespace   string    `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	SecretName  string    `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	AccountName string    `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	AccountUID  types.UID `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
}

// bound is whom a token is of, and what it dies with.
type bound struct {
	Namespace string     `json:"namespace,omitempty"`
	Account   reference  `json:"serviceaccount,omitempty"`
	Secret    *reference `json:"secret,omitempty"`

	// Kinds that other servers with the same keys may bind tokens to, and that there are none of here.
	Pod               *reference `json:"pod,omitempty"`
	Node              *reference `json:"node,omitempty"`
	ValidatingWebhook *reference `json:"validatingwebhookconfiguration,omitempty"`
	MutatingWebhook   *reference `json:"mutatingwebhookconfiguration,omitempty"`
}

type reference struct {
	Name string    `json:"name,omitempty"`
	UID  types.UID `json:"uid,omitempty"`
}

func referTo(obj metav1.Object) reference {
	return reference{Name: obj.GetName(), UID: obj.GetUID()}
}

// audiences are written as a list, as in every Kubernetes token, and may be read as a single string.
type audiences []string

func (a *audiences) UnmarshalJSON(raw []byte) error {
	var read jwt.Audience
	if err := json.Unmarshal(raw, &read); err != nil {
		return err
	}
	*a = audiences(read)
	return nil
}

// times are the claims that the library compares with the clock.
func (c *claims) times() jwt.Claims {
	return jwt.Claims{Expiry: c.Expiry, NotBefore: c.NotBefore, IssuedAt: c.IssuedAt}
}
