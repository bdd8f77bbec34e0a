"""Device slots are claimed whole and given back whole."""

from engine.dispatch.pool import DevicePool


def test_devices_are_claimed_whole_or_not_at_all() -> None:
    pool = DevicePool(["cpu:0", "cpu:1", "cpu:2"])

    assert pool.claim("aa", 2) == ("cpu:0", "cpu:1")
    assert pool.claim("bb", 2) is None
    assert pool.free() == ("cpu:2",)


def test_a_released_device_can_be_claimed_again() -> None:
    pool = DevicePool(["cpu:0"])
    pool.claim("aa", 1)

    pool.release("aa")

    assert pool.claim("bb", 1) == ("cpu:0",)


def test_a_device_that_was_held_before_a_restart_is_held_after_it() -> None:
    pool = DevicePool(["cpu:0", "cpu:1"])

    pool.hold("aa", ["cpu:1"])

    assert pool.free() == ("cpu:0",)


def test_a_shortage_says_who_holds_the_devices() -> None:
    pool = DevicePool(["cpu:0"])
    pool.claim("aa", 1)

    assert pool.shortage(1) == "1 device; cpu:0 is held by run aa"
    assert pool.shortage(2) == "2 devices; this machine has 1"
