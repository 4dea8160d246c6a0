package storagetest

var Decide = decide
