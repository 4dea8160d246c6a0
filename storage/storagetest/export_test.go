package storagetest

var PolicyOf = policyOf
