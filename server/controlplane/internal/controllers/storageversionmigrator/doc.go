// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storageversionmigrator works off StorageVersionMigrations: every object of the resource is stored anew, in the version and with the
// encryption that the server uses now.
//
//	controller.go    which migration is next for a resource
//	migrate.go       one migration, from beginning to end
//	objects.go       storing the objects anew
//	conditions.go    what is said about it in the migration
//	definition.go    what is said about it in the definition of a custom resource
//
// An object is stored anew by a patch of nothing at the resource version that it was listed with. The server writes it if the stored bytes are not
// those that it would store, and else leaves it as it is. Objects that somebody else writes or deletes meanwhile are passed over: they are
// in the new form, or gone.
//
// A migration that was interrupted begins anew, since the server may store in another way than before by then. That is cheap where an object
// has been stored anew already.
package storageversionmigrator
