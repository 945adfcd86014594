// Package e2e tests the programs from outside, as a user runs them: command line in, files, output and exit status out.
package e2e
