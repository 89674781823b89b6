//go:build !linux

package engine

const canWrap = false
