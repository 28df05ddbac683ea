// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"crypto/sha256"
	"encoding/binary"
)

// assignee returns the replica that works on a feature: of those that know it, or of all if none does, the one whose name weighs most
// together with the feature's. When a replica comes or goes, only the features that it takes or leaves move.
func assignee(replicas []replica, namespace, name string) (replica, bool) {
	var leader replica
	var most uint64
	found, known := false, false
	for _, r := range replicas {
		_, knows := r.features[name]
		if known && !knows {
			continue
		}
		weight := weigh(namespace+"/"+name, r.name)
		if !found || knows && !known || weight > most || weight == most && r.name > leader.name {
			leader, most = r, weight
		}
		found, known = true, known || knows
	}
	return leader, found
}

func weigh(feature, replica string) uint64 {
	sum := sha256.Sum256([]byte(feature + "\x00" + replica))
	return binary.BigEndian.Uint64(sum[:])
}
