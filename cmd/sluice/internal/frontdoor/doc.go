// Package frontdoor holds the tests of "sluice serve" as people use it: the program
// is built and started, requests come from hey and curl, databases die under it,
// and it is told what to do by signals.
//
// What is admitted, the upstream counts, which is the only one who cannot be
// deceived about it. The counts are held against the bound of the policy, for the
// time that the run took.
package frontdoor
