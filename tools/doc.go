// Package tools holds the scripts behind the Makefile; its tests run them on made-up machines.
package tools
