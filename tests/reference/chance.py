"""The random numbers of policies: splitmix64, one word for each choice among several."""


class Chance:
    def __init__(self, seed: int = 0) -> None:
        self.seed, self.draws = seed, 0

    def pick(self, n: int) -> int:
        """A number below n; where there is no choice, nothing is drawn."""
        if n == 1:
            return 0
        self.draws += 1
        word, mask = self.seed + self.draws * 0x9E3779B97F4A7C15, 2**64 - 1
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            word &= mask
            word = (word ^ (word >> shift)) * factor
        return ((word & mask) >> 32) * n >> 32
