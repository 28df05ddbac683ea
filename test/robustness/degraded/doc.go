// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package degraded breaks what Annex depends on, and looks at what its users see: an error or a condition that says what is wrong and what
// to do, others that go on, nothing lost, and recovery as soon as the cause is gone, with no restart and no hand. It also restarts Annex
// while much is broken, and reads its log when nothing is.
//
// Where each failure is shown, here or beside the code:
//
//	broken webhook
//	  wrong authority or name, hangs, panics, 500, garbage, another uid,   TestBrokenParts/webhooks
//	  a patch that does not apply; both kinds, both policies
//	  down, redirects, too large, no response, unknown service             test/integration/controlplane TestWebhooks, TestServiceWebhooks
//	  for everything, down: removable, leadership comes back, restart      TestRestartWhileMuchIsBroken,
//	                                                                       server/standalone TestAWebhookThatRefusesEverythingCanBeRemoved
//	  conversion webhook gone                                              TestBrokenParts/conversion_webhook
//	broken CustomResourceDefinition
//	  schema, rules and their cost, defaults, names of others,             TestBrokenParts/definitions
//	  a version that is stored taken away
//	  undecodable in etcd, as any object; started with it                  test/integration/controlplane TestUnreadableObjects,
//	                                                                       TestUnreadableObjectsDoNotKeepItFromStarting
//	broken APIService
//	  hangs, trickles, garbage, too much                                   test/integration/aggregation
//	  nobody there, another version of a built-in group, in place of       TestRestartWhileMuchIsBroken
//	  a built-in one; restart
//	  holds namespaces, and lets them go                                   test/integration/controlplane TestAServerThatIsAwayHoldsANamespace
//	  holds orphans of garbage collection                                  test/integration/controlplane TestOrphansWaitForAServerThatIsAway
//	certificates
//	  of users: expired or of later, at both servers                       TestBrokenParts/credentials, server/internal/options TestWhoIsRefusedLearnsWhy
//	  of annex up itself, while it runs                                    TestCertificatesOutliveThemselves,
//	                                                                       server/standalone TestCertificatesAreRenewedWhileItRuns
//	  of annex up itself, expired on disk                                  TestRestartWhileMuchIsBroken, server/certificates/pki TestRenewal
//	  renewals that fail for a while                                       server/standalone TestRenewalsThatFailAreTriedAgain
//	  of an extension apiserver that runs alone                            server/internal/certificates/rotation TestReplicasRotateWithoutAGap
//	  for an external etcd                                                 server/etcd TestClientCertificateIsReadAgain
//	clock skew
//	  certificates and tokens of another time                              TestBrokenParts/credentials, test/integration/controlplane TestBadTokensAreRefused
//	  authorities made by a clock that was set back since                  server/certificates/pki TestRenewal, server/internal/certificates/rotation TestAuthoritiesOfAFastClock
//	  leadership, which asks no clock but its own for how long             controllers/leadership TestTheTimeOfDayDoesNotMatter,
//	                                                                       TestASuspendedMachineComesBackAsAFollower
//	  Leases of replicas that are no more, from the future                 server/controlplane/internal/controllers/apiserverlease TestLeasesThatHaveRunOut
//	  Events, which are kept no longer and no shorter                      TestBrokenParts/events
//	  those who report features                                            test/robustness/features TestReportersWithWrongClocksAnswerInTime
//	  a host whose clock is far off                                        server/extension TestClocksApartAreNoticedOnce
//	NOSPACE
//	  embedded, full of live data: leadership, stop, restart               TestEmbeddedStoreIsFull
//	  embedded, full of what is dead; a larger quota                       server/etcd TestOverwritingFillsTheStoreAndItRecovers,
//	                                                                       TestLargerQuotaLiftsTheAlarm
//	  external                                                             test/robustness/storage
//	  the disk itself                                                      test/robustness/storage
package degraded
