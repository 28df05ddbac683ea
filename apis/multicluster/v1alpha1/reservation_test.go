// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "testing"

func TestReservationName(t *testing.T) {
	t.Parallel()
	// As printed by: printf '%s\0%s' fleet.example.com cluster-1 | sha256sum
	const want = "c2e638507f5df1ba742138e5b30262534b01a14abb3e77fd202ac4b8d442b1a8"
	if got := ReservationName("fleet.example.com", "cluster-1"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if ReservationName("fleet.example.comc", "luster-1") == want {
		t.Error("the boundary between set and id makes no difference")
	}
}
