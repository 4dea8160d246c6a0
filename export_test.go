package sluice

var Moved = moved
